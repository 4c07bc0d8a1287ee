// A client with deadlines and retries: one call in a message, a program in a message, one call in chunks.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { CallError } from './errors.js';
import { OperatorService } from './protos.js';
import { sizeBytes } from './values.js';

export const MESSAGE_BYTES = 16 * 2 ** 20; // grpc-js by itself takes replies of 4 MiB
const WINDOW_BYTES = 2 ** 20; // and 64 KiB for each round trip, which is slow on a real network
const CHUNK_BYTES = 2 ** 20;
const READY_WAIT_MS = 1000;
const RETRIES = 4;

export class Client {
  #service;
  #timeoutMs;

  /** For TLS, give `grpc.credentials.createSsl(...)`. */
  constructor(address, { timeoutMs = 60_000, credentials = grpc.credentials.createInsecure() } = {}) {
    const options = {
      'grpc.max_receive_message_length': MESSAGE_BYTES,
      'grpc-node.flow_control_window': WINDOW_BYTES,
      // Between its attempts to connect, grpc-js fails every call: by itself for up to two minutes.
      'grpc.max_reconnect_backoff_ms': 1000,
    };
    this.#service = new OperatorService(address, credentials, options);
    this.#timeoutMs = timeoutMs;
  }

  close() {
    this.#service.close();
  }

  /** Returns what the server runs on, how busy it is, and its limits. */
  serverStatus() {
    return this.#unary('getServerStatus', {});
  }

  /** Returns the outputs of one call. */
  async execute(call) {
    return (await this.#unary('executeOperator', call)).outputs;
  }

  /** Returns, for each step, its outputs or its CallError. */
  async executeProgram(program) {
    const { results } = await this.#unary('executeProgram', program);
    return results.map(({ outputs, error }) => (error ? new CallError(error) : outputs));
  }

  /** Returns the outputs of one call of any size. */
  executeInChunks(call) {
    return this.#retried((deadline) => this.#inChunks(call, deadline));
  }

  #unary(method, request) {
    return this.#retried(
      (deadline) =>
        new Promise((resolve, reject) => {
          this.#service[method](request, { deadline }, (error, reply) => (error ? reject(error) : resolve(reply)));
        }),
    );
  }

  async #inChunks(call, deadline) {
    const stream = this.#service.executeProgramChunked({ deadline });
    const ready = new Promise((resolve) => stream.once('metadata', resolve));
    const chunked = call.inputs.filter((input) => input.data);

    // A program of one step, whose inputs refer to tensors of its table that follow.
    async function* requests() {
      const tensors = chunked.map(({ dataType, shape }) => ({ dataType, shape }));
      const inputs = call.inputs.map((input) => {
        const { data, ...described } = input;
        return data ? { ...described, tableIndex: chunked.indexOf(input) } : described;
      });
      yield { header: { program: { steps: [{ ...call, inputs }], tensors } } };
      // The server answers with its metadata once it has accepted the header. A proxy may hold that back.
      await Promise.race([ready, sleep(READY_WAIT_MS, undefined, { ref: false })]);
      for (const [tensorIndex, { data }] of chunked.entries()) {
        for (let offsetBytes = 0; offsetBytes < data.length; offsetBytes += CHUNK_BYTES) {
          yield { chunk: { tensorIndex, offsetBytes, data: data.subarray(offsetBytes, offsetBytes + CHUNK_BYTES) } };
        }
      }
    }

    const outputs = [];
    async function receive(replies) {
      for await (const { results, chunk } of replies) {
        if (chunk) {
          chunk.data.copy(outputs[chunk.tensorIndex].data, chunk.offsetBytes);
          continue;
        }
        const [result] = results.results;
        if (result.error) throw new CallError(result.error);
        outputs.push(...result.outputs.map((output) => ({ ...output, data: Buffer.alloc(sizeBytes(output)) })));
      }
    }

    try {
      await pipeline(Readable.from(requests()), stream, receive);
      return outputs;
    } finally {
      stream.cancel(); // has no effect on a call that has ended
    }
  }

  /** Retries after temporary failures, all attempts within one deadline. */
  async #retried(attempt) {
    const deadline = Date.now() + this.#timeoutMs;
    for (let failures = 0; ; failures++) {
      try {
        return await attempt(deadline);
      } catch (failure) {
        const error = CallError.of(failure);
        if (error.retryDelayMs === undefined || failures === RETRIES) throw error;
        // At random, so that clients that failed together do not come back together.
        const delayMs = error.retryDelayMs + Math.random() * 200 * 2 ** failures;
        if (Date.now() + delayMs >= deadline) throw error;
        await sleep(delayMs);
      }
    }
  }
}
