import type { LedgerEntry, Sandbox } from '../../sandbox/index.ts';

/**
 * Calls `onRequest` for each request that ends, from the portal's event stream, until the sandbox closes or `signal`
 * aborts; `onLeftOut` if there were more than the stream carries. Resolves once it listens.
 */
export async function followRequests(
  { portalUrl, portalToken }: Sandbox,
  { onRequest, onLeftOut }: { onRequest: (request: LedgerEntry) => void; onLeftOut: (count: number) => void },
  signal: AbortSignal,
): Promise<void> {
  const headers: Record<string, string> = portalToken === undefined ? {} : { authorization: `Bearer ${portalToken}` };
  const { body } = await fetch(`${portalUrl}/api/events`, { headers, signal });
  const follow = async (): Promise<void> => {
    for await (const line of linesOf(body)) {
      if (!line.startsWith('data: ')) continue;
      const { requests = [], requestsLeftOut = 0 } = JSON.parse(line.slice('data: '.length)) as Frame;
      for (const request of requests) if (request.outcome !== 'pending') onRequest(request);
      if (requestsLeftOut > 0) onLeftOut(requestsLeftOut);
    }
  };
  // The stream breaks off when the sandbox closes.
  void follow().catch(() => {});
}

interface Frame {
  readonly requests?: LedgerEntry[];
  readonly requestsLeftOut?: number;
}

async function* linesOf(body: AsyncIterable<Uint8Array> | null): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
