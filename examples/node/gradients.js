// Makes a small call, a program and a call above the message limit, and checks every gradient by plain arithmetic.
//
//     node gradients.js [HOST:PORT]
import { Client, MESSAGE_BYTES } from './client.js';
import { CallError } from './errors.js';
import { arrayOf, ints, shapeOnly, tensor } from './values.js';

const SCALE = 2;

/** Returns a call that spreads each cell of a (planes, size, size) gradient over SCALE x SCALE cells. */
function pooling(planes, size) {
  const gradOutput = Float32Array.from({ length: planes * size * size }, (_, index) => index % 1000);
  const inputs = [
    tensor('grad_output', [planes, size, size], gradOutput),
    shapeOnly('self', [planes, size * SCALE, size * SCALE]),
  ];
  return { call: { operator: 'adaptive_avg_pool2d_backward', inputs }, gradOutput };
}

/** Each cell was one of SCALE x SCALE that were averaged: it gets that share of the gradient of their average. */
function isSpread(output, gradOutput, planes, size) {
  const gradient = arrayOf(output);
  const width = size * SCALE;
  for (let cell = 0; cell < gradient.length; cell++) {
    const row = Math.floor(cell / width / SCALE); // of gradOutput, over all planes
    const column = Math.floor((cell % width) / SCALE);
    if (gradient[cell] !== gradOutput[row * size + column] / SCALE ** 2) return false;
  }
  return gradient.length === planes * width * width;
}

/** Returns a call whose result is, in every cell, the number of cells that were upsampled from it. */
function upsampling(scale) {
  const size = 3 * scale;
  return {
    operator: 'upsample_nearest2d_backward',
    inputs: [tensor('grad_output', [1, 2, size, size], new Float32Array(2 * size * size).fill(1))],
    attributes: { output_size: ints(size, size), input_size: ints(1, 2, 3, 3) },
  };
}

const say = (what, isRight, details) => console.log(`${what.padEnd(10)} ${isRight ? 'right' : 'WRONG'}  ${details}`);

async function oneCall(client) {
  const { call, gradOutput } = pooling(6, 7);
  const [output] = await client.execute(call);
  const isRight = isSpread(output, gradOutput, 6, 7);
  say('one call', isRight, `${output.name}, ${output.data.length} bytes`);
  return isRight;
}

async function aProgram(client) {
  const scales = [1, 2, 5];
  const wrong = upsampling(2);
  wrong.inputs[0] = tensor('grad_output', [1, 2, 6, 6], new Int32Array(72)); // a type that the operator does not take
  const results = await client.executeProgram({ steps: [...scales.map(upsampling), wrong] });
  const refusal = results.pop();
  const areRight = results.map(([output], index) => arrayOf(output).every((value) => value === scales[index] ** 2));
  const isRight = areRight.every(Boolean) && refusal.reason === 'INVALID_FIELD';
  say('a program', isRight, `${results.length} gradients, and ${refusal.reason}: ${refusal.violations[0]?.description}`);
  return isRight;
}

async function inChunks(client, messageBytes) {
  const size = 128;
  const planes = Math.ceil(messageBytes / (4 * size * size)) + 1;
  const { call, gradOutput } = pooling(planes, size);
  const start = Date.now();
  const [output] = await client.executeInChunks(call);
  const elapsedMs = Date.now() - start;
  const isRight = isSpread(output, gradOutput, planes, size);
  const megabytes = (array) => `${Math.round(array.byteLength / 1e6)} MB`;
  say('in chunks', isRight, `${megabytes(gradOutput)} there, ${megabytes(output.data)} back in ${elapsedMs} ms`);
  return isRight;
}

const client = new Client(process.argv[2] ?? '127.0.0.1:50051');
try {
  const { version, product, library, limits } = await client.serverStatus();
  console.log(`aclgrad ${version} on ${product} (${library})`);
  // A server may keep its limits to itself.
  const messageBytes = limits?.messageBytes ?? MESSAGE_BYTES;
  const areRight = [await oneCall(client), await aProgram(client), await inChunks(client, messageBytes)];
  process.exitCode = areRight.every(Boolean) ? 0 : 1;
} catch (error) {
  if (!(error instanceof CallError)) throw error;
  console.error(`${error}`);
  process.exitCode = 1;
} finally {
  client.close();
}
