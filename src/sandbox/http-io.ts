import type { IncomingMessage, ServerResponse } from 'node:http';

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
export function headersOf(answer: Answer, nowMs: number): Record<string, string> {
  return { date: new Date(nowMs).toUTCString(), ...answer.headers };
}

/** Writes an answer whole. */
export function send(res: ServerResponse, answer: Answer, nowMs: number): void {
  const hasBody = answer.status !== 204 && answer.status !== 304;
  res.sendDate = false;
  res.writeHead(answer.status, {
    ...headersOf(answer, nowMs),
    ...(hasBody && { 'content-length': Buffer.byteLength(answer.body) }),
  });
  res.end(hasBody ? answer.body : undefined);
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
  req.on('end', () => finish({ text: Buffer.concat(chunks).toString('utf8') }));
  req.on('error', () => finish({ problem: 'aborted' }));
  req.on('close', () => finish({ problem: 'aborted' }));
}
