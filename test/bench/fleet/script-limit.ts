import net, { type AddressInfo, type Socket } from 'node:net';

/** A proxy to a Redis that runs at most `perSecond` scripts, in the order in which they come: a server that is overloaded. */
export async function limitScripts(toPort: number, perSecond: number) {
  const queue: { upstream: Socket; command: Buffer }[] = [];
  const sockets = new Set<Socket>();
  const limit = { perSecond: Infinity, scripts: 0, port: 0, close: () => {} };
  let credit = 0;
  let lastMs = performance.now();
  const drain = () => {
    const nowMs = performance.now();
    credit = Math.min(limit.perSecond / 20, credit + ((nowMs - lastMs) / 1000) * limit.perSecond);
    lastMs = nowMs;
    while (queue[0] && (limit.perSecond === Infinity || !isScript(queue[0].command) || credit >= 1)) {
      const { upstream, command } = queue.shift() as (typeof queue)[0];
      if (isScript(command)) {
        credit--;
        limit.scripts++;
      }
      upstream.write(command);
    }
  };
  const timer = setInterval(drain, 4);
  const server = net.createServer((client) => {
    const upstream = net.connect(toPort, '127.0.0.1');
    for (const socket of [client, upstream]) {
      sockets.add(socket.setNoDelay());
      socket.on('error', () => {});
      socket.on('close', () => [client, upstream].map((each) => each.destroy()));
    }
    let buffered = Buffer.alloc(0);
    client.on('data', (chunk) => {
      buffered = Buffer.concat([buffered, chunk]);
      for (let length = commandLength(buffered); length > 0; length = commandLength(buffered)) {
        queue.push({ upstream, command: buffered.subarray(0, length) });
        buffered = buffered.subarray(length);
      }
      drain();
    });
    upstream.on('data', (chunk) => client.write(chunk));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  limit.port = (server.address() as AddressInfo).port;
  limit.close = () => {
    clearInterval(timer);
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { limit, begin: () => Object.assign(limit, { perSecond }) };
}

const isScript = (command: Buffer) => /^\*\d+\r\n\$\d+\r\neval/i.test(command.subarray(0, 24).toString('latin1'));

/** The length of the first command, an array of bulk strings; 0 while it is incomplete. */
function commandLength(buffer: Buffer): number {
  const line = (from: number) => {
    const end = buffer.indexOf('\r\n', from);
    return end < 0 ? undefined : { value: Number(buffer.subarray(from + 1, end)), next: end + 2 };
  };
  const count = line(0);
  let at = count?.next ?? 0;
  for (let left = count?.value ?? 0; left > 0; left--) {
    const size = line(at);
    if (!size) return 0;
    at = size.next + size.value + 2;
    if (at > buffer.length) return 0;
  }
  return at;
}
