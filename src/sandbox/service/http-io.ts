import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

/** An answer before it is sent: what faults act on. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function jsonAnswer(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}

/** An answer's headers, dated by the sandbox's clock and not the machine's. */
export function headersOf(answer: Answer, nowMs: number, bytes = Buffer.byteLength(answer.body)): OutgoingHttpHeaders {
  const date = new Date(nowMs).toUTCString();
  // An answer that has no body by its status has no length of one either.
  if (answer.status === 204 || answer.status === 304) return { date, ...answer.headers };
  return { date, ...answer.headers, 'content-length': bytes };
}

/** Writes an answer whole. */
export function send(res: ServerResponse, answer: Answer, nowMs: number): void {
  res.sendDate = false;
  res.writeHead(answer.status, headersOf(answer, nowMs));
  res.end(answer.body);
}

export type BodyResult = { text: string } | { problem: 'too_large' | 'aborted' };

/** Reads a body of at most this many bytes, and calls back once. What is over the limit is not kept. */
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
