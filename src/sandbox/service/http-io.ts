import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** An answer before it is sent. Faults act on it. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function jsonAnswer(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}

/** The headers of an answer, with `Date` from the sandbox's clock. */
export function headersOf(answer: Answer, nowMs: number, bytes = Buffer.byteLength(answer.body)): OutgoingHttpHeaders {
  const date = new Date(nowMs).toUTCString();
  // Answers with these statuses have no body, hence no content-length.
  if (answer.status === 204 || answer.status === 304) return { date, ...answer.headers };
  return { date, ...answer.headers, 'content-length': bytes };
}

/** Sends a complete answer. */
export function send(res: ServerResponse, answer: Answer, nowMs: number): void {
  res.sendDate = false;
  res.writeHead(answer.status, headersOf(answer, nowMs));
  res.end(answer.body);
}

/**
 * Calls back once an answer is sent or cut off. Node emits no `close` for an answer whose connection closes while it waits
 * for the answers before it.
 */
export function onceEnded(res: ServerResponse, callback: () => void): void {
  const { socket } = res.req;
  const ended = () => {
    res.off('close', ended);
    socket.off('close', ended);
    callback();
  };
  res.on('close', ended);
  socket.on('close', ended);
}

export type BodyResult = { text: string } | { problem: 'too_large' | 'aborted' };

/** Reads a body of at most `maxBytes` and calls back once. Bytes beyond the limit are dropped. */
export function readBody(req: IncomingMessage, maxBytes: number, done: (result: BodyResult) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let over = false;
  const finish = (result: BodyResult) => {
    if (over) return;
    over = true;
    done(result);
  };
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    else finish({ problem: 'too_large' });
  });
  req.on('end', () => {
    const [only] = chunks;
    const body = chunks.length === 1 && only ? only : Buffer.concat(chunks);
    finish({ text: body.toString('utf8') });
  });
  req.on('close', () => finish({ problem: 'aborted' }));
}
