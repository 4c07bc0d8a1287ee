// The service and the messages of errors, loaded from the published .proto files when the program starts.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import protobuf from 'protobufjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
// `google/rpc/*.proto` are those of github.com/googleapis/googleapis; `make build/googleapis` copies them here.
const FOLDERS = [join(ROOT, 'proto'), process.env.GOOGLEAPIS ?? join(ROOT, 'build', 'googleapis')];
if (!existsSync(join(FOLDERS[1], 'google', 'rpc', 'status.proto'))) {
  throw new Error(`${FOLDERS[1]} has no google/rpc/status.proto; run make build/googleapis, or set GOOGLEAPIS`);
}

const definition = protoLoader.loadSync('aclgrad/v1/operator_service.proto', {
  includeDirs: FOLDERS,
  longs: Number, // sizes stay below 2**53
  enums: String,
  defaults: true,
  oneofs: true,
});

export const { OperatorService } = grpc.loadPackageDefinition(definition).aclgrad.v1;

const errors = new protobuf.Root();
errors.resolvePath = (origin, target) => join(FOLDERS[1], target);
errors.loadSync(['google/rpc/status.proto', 'google/rpc/error_details.proto']);

/** Returns a message type of google.rpc by its name. */
export const rpcType = (name) => errors.lookupType(`google.rpc.${name}`);
