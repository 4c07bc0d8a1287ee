// Makes a small call, a program and a call above the message limit, and checks every gradient by plain arithmetic.
//
//     node gradients.js [HOST:PORT]
import { Client, MESSAGE_BYTES } from './client.js';
import { CallError } from './errors.js';
import { arrayOf, ints, reference, shapeOnly, tensor } from './values.js';

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

/**
 * Returns two steps, the first of them at position `first`: the backward pass of a net that enlarges its input by SCALE
 * and averages it again, from the gradient in the table. The second step takes what the first one made.
 */
function steps(first, planes) {
  const large = [1, planes, 3 * SCALE, 3 * SCALE];
  return [
    {
      operator: 'adaptive_avg_pool2d_backward',
      inputs: [reference('grad_output', [1, 2, 3, 3], { tableIndex: 0 }), shapeOnly('self', large)],
    },
    {
      operator: 'upsample_nearest2d_backward',
      inputs: [reference('grad_output', large, { outputOf: { step: first, output: 'out' } })],
      attributes: { output_size: ints(3 * SCALE, 3 * SCALE), input_size: ints(1, planes, 3, 3) },
    },
  ];
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
  const gradOutput = Float32Array.from({ length: 2 * 3 * 3 }, (_, index) => index);
  const results = await client.executeProgram({
    tensors: [tensor('', [1, 2, 3, 3], gradOutput)], // sent once, used by steps 0 and 2
    steps: [...steps(0, 2), ...steps(2, 3)], // the gradient has 2 planes, so step 2 is wrong, and step 3 lacks its input
    returned: [1, 3].map((step) => ({ step, output: 'grad_input' })),
  });
  if (results[1] instanceof CallError) throw results[1];
  const [between, [output], refusal, lack] = results;
  // The shares of the average are summed again: the gradient of this net is the one that came in.
  const isRight =
    between.length === 0 && // not sent back
    arrayOf(output).every((value, index) => value === gradOutput[index]) &&
    refusal.reason === 'INVALID_FIELD' &&
    lack.metadata.step === '2';
  const why = `step 2: ${refusal.reason}, ${refusal.violations[0]?.description}; step 3: ${lack.reason}`;
  say('a program', isRight, `${output.name} of step 1; ${why}`);
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
