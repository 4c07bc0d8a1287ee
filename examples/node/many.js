// Makes many small calls at once, without retries, and prints how many of them ended how.
//
//     node many.js HOST:PORT [CHANNELS [CALLS]]
import grpc from '@grpc/grpc-js';
import { OperatorService } from './protos.js';
import { arrayOf, shapeOnly, tensor } from './values.js';

const [address, channels = 1, calls = 500] = process.argv.slice(2);
const SIZE = 8;
const gradOutput = new Float32Array(SIZE * SIZE).fill(1);
const shape = [1, SIZE, SIZE];
const call = {
  operator: 'adaptive_avg_pool2d_backward',
  inputs: [tensor('grad_output', shape, gradOutput), shapeOnly('self', shape)],
};

function ending(service) {
  return new Promise((resolve) => {
    service.executeOperator(call, { deadline: Date.now() + 60_000 }, (error, reply) => {
      if (error) resolve(`${grpc.status[error.code]}: ${error.details}`);
      else resolve(arrayOf(reply.outputs[0]).every((value) => value === 1) ? 'right' : 'wrong');
    });
  });
}

const services = Array.from({ length: channels }, (_, number) => {
  // A connection of its own.
  const options = { 'grpc.use_local_subchannel_pool': 1, number };
  return new OperatorService(address, grpc.credentials.createInsecure(), options);
});
await Promise.all(services.map(ending)); // connects
const endings = await Promise.all(services.flatMap((service) => Array.from({ length: calls }, () => ending(service))));
for (const each of new Set(endings)) console.log(endings.filter((other) => other === each).length, each);
for (const service of services) service.close();
