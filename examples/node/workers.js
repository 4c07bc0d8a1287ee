// Spreads small calls over the workers of a host, and prints how many ended how.
//
//     node workers.js HOST:PORT [CALLS]
import grpc from '@grpc/grpc-js';
import { OperatorService } from './protos.js';
import { arrayOf, shapeOnly, tensor } from './values.js';

const [address, calls = 100] = process.argv.slice(2);
const SIZE = 8;
const TIMEOUT_MS = 10_000;
const SERVING = 1;
const shape = [1, SIZE, SIZE];
const call = {
  operator: 'adaptive_avg_pool2d_backward',
  inputs: [tensor('grad_output', shape, new Float32Array(SIZE * SIZE).fill(1)), shapeOnly('self', shape)],
};
const credentials = grpc.credentials.createInsecure();

const answer = (begin) =>
  new Promise((resolve, reject) => {
    begin({ deadline: Date.now() + TIMEOUT_MS }, (error, reply) => (error ? reject(error) : resolve(reply)));
  });

/** Whether a server answers to the id of the host, and takes calls. grpc-js itself asks no server for its health. */
async function isOurs(worker, id) {
  const client = new grpc.Client(worker, credentials);
  const name = Buffer.from(id);
  const encoded = Buffer.concat([Buffer.from([0x0a, name.length]), name]); // field 1 of HealthCheckRequest
  try {
    const method = '/grpc.health.v1.Health/Check';
    const status = await answer((options, done) =>
      client.makeUnaryRequest(method, (bytes) => bytes, (bytes) => bytes.at(-1), encoded, options, done),
    );
    return status === SERVING;
  } catch {
    return false; // NOT_FOUND, UNIMPLEMENTED, UNAVAILABLE
  } finally {
    client.close();
  }
}

/** Returns the addresses of the workers behind an address, or that address if there are none. */
async function workersOf(address) {
  const [, name, port] = /^(.*):(\d+)$/.exec(address);
  const door = new OperatorService(address, credentials);
  const { host } = await answer((options, done) => door.listOperators({}, options, done));
  door.close();
  const listener = host?.listeners.find((each) => each.port === Number(port));
  if (!listener) return [address];
  const workers = listener.workerPorts.map((each) => `${name}:${each}`);
  const areOurs = await Promise.all(workers.map((each) => isOurs(each, host.id)));
  return workers.filter((_, index) => areOurs[index]);
}

const workers = await workersOf(address);
const service = new OperatorService(`ipv4:${workers.join(',')}`, credentials, {
  'grpc.service_config': JSON.stringify({
    // grpc-js takes the first that it knows: before 1.14 that is the second.
    loadBalancingConfig: [
      { weighted_round_robin: { blackoutPeriod: '1s', weightUpdatePeriod: '1s' } },
      { round_robin: {} },
    ],
  }),
  'grpc.max_reconnect_backoff_ms': 1000,
});
await new Promise((resolve, reject) => {
  service.waitForReady(Date.now() + TIMEOUT_MS, (error) => (error ? reject(error) : resolve()));
});
const endings = {};
for (let number = 0; number < calls; number++) {
  const ending = await answer((options, done) => service.executeOperator(call, options, done)).then(
    (reply) => (arrayOf(reply.outputs[0]).every((value) => value === 1) ? 'right' : 'wrong'),
    (error) => `${grpc.status[error.code]}: ${error.details}`,
  );
  endings[ending] = (endings[ending] ?? 0) + 1;
}
for (const [ending, count] of Object.entries(endings)) console.log(count, ending);
service.close();
