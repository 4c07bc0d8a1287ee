// A failed call: the gRPC status and, unless gRPC itself failed the call, the reason that error_reason.proto names.
import grpc from '@grpc/grpc-js';
import { rpcType } from './protos.js';

export class CallError extends Error {
  /** Takes a google.rpc.Status; a status of gRPC's core has no details. */
  constructor({ code, message, details = [] }) {
    super(message);
    this.status = grpc.status[code] ?? `status ${code}`;
    const detail = (kind) => {
      const any = details.find((each) => each.type_url === `type.googleapis.com/google.rpc.${kind}`);
      return any && rpcType(kind).decode(any.value);
    };
    const info = detail('ErrorInfo');
    this.reason = info?.reason ?? '';
    this.metadata = info?.metadata ?? {};
    this.violations = detail('BadRequest')?.fieldViolations ?? [];
    const delay = detail('RetryInfo')?.retryDelay;
    /** How long to wait before the same call can succeed; undefined if a retry does not help. */
    this.retryDelayMs = delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6;
    // The connection was lost or could not be made. Every call may be repeated.
    if (code === grpc.status.UNAVAILABLE && details.length === 0) this.retryDelayMs = 0;
  }

  /** Returns the error of a call that grpc-js reports as failed; any other error stays what it is. */
  static of(error) {
    if (!(error?.metadata instanceof grpc.Metadata)) return error;
    const [packed] = error.metadata.get('grpc-status-details-bin');
    if (packed) return new CallError(rpcType('Status').decode(packed));
    return new CallError({ code: error.code, message: error.details });
  }

  toString() {
    const id = this.metadata.request_id ? ` (request ${this.metadata.request_id})` : '';
    return `${this.status}${this.reason && ` ${this.reason}`}: ${this.message}${id}`;
  }
}
