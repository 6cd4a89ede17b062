/** Addresses that two parsers may read differently, and servers that show where a token arrives. */

import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** `host:port` of the server that may have the token, and of one that may not. */
export interface Hosts {
  readonly good: string;
  readonly evil: string;
}

const SCHEMES = ['http://', 'HTTP://', 'http:', 'http:/', 'http:///', 'http:\\\\', 'http:\\/', ' http://', '\thttp://'];
const RARE_SCHEMES = [
  '//',
  '///',
  '\\\\',
  '/\\',
  'ht\ttp://',
  'http\t://',
  'https://',
  'ws://',
  'ftp://',
  'blob:http://',
];

/** Between two hosts: which of them counts differs from parser to parser. */
const BETWEEN_HOSTS = [
  '@',
  '\\@',
  '/@',
  '?@',
  '#@',
  '%40',
  '%2f@',
  '%5c@',
  ':@',
  ':80@',
  ';@',
  '&@',
  '\t@',
  '%09@',
  '@@',
  ',',
  '/',
  '//',
];

/** The other host, further on. */
const PATHS = [
  ...[
    '//HOST/x',
    '///HOST/x',
    '/\\HOST/x',
    '\\\\HOST/x',
    '/\t/HOST/x',
    '/http://HOST/x',
    '/HTTP://HOST/',
    '//HOST',
    '/.//HOST/x',
  ],
  ...[
    '/..//HOST/x',
    '/../../HOST',
    '/%2f%2fHOST/x',
    '/%2e%2e//HOST',
    '//u:p@HOST/x',
    '/@HOST/x',
    '/;@HOST',
    '/:80//HOST/x',
  ],
  ...[
    '?//HOST/x',
    '?u=http://HOST',
    '#//HOST/x',
    '/#@HOST',
    '/x?@HOST/',
    '//HOST\\@x/',
    '//HOST#',
    '//HOST?',
    '/./http://HOST/x',
  ],
];

/** The same loopback server by other names. `PORT` is the server's. */
const ALIASES = [
  ...[
    '127.1:PORT',
    '127.0.1:PORT',
    '2130706433:PORT',
    '0x7f000001:PORT',
    '0x7f.1:PORT',
    '0177.0.0.1:PORT',
    '127.0.0.1.:PORT',
  ],
  ...[
    '[::ffff:127.0.0.1]:PORT',
    '[::1]:PORT',
    '0:PORT',
    '0.0.0.0:PORT',
    '127.0.0.2:PORT',
    '%31%32%37.0.0.1:PORT',
    '127.0.0.1:0PORT',
  ],
  ...[
    '１２７.0.0.1:PORT',
    '127。0。0。1:PORT',
    '127.0.0.1:PORT ',
    '127.0.0.1:\tPORT',
    '127.0.0.1\t:PORT',
    '127.0.0.1:PORT:80',
    'localhost:PORT',
  ],
  ...['LOCALHOST:PORT', 'loc\talhost:PORT', 'u@127.0.0.1:PORT', 'u:p@127.0.0.1:PORT', '127.0.0.1', '[::1%25lo]:PORT'],
];

/** Several hundred addresses of either server, most of which name both. */
export function oddAddresses({ good, evil }: Hosts): string[] {
  const pairs = [
    [good, evil],
    [evil, good],
  ] as const;
  const addresses = pairs.flatMap(([host, other]) => {
    const withOther = (path: string) => `${host}${path.replace('HOST', other)}`;
    const port = host.slice(host.indexOf(':') + 1);
    return [
      ...SCHEMES.map((scheme) => `${scheme}${host}/`),
      ...RARE_SCHEMES.flatMap((scheme) => [`${scheme}${host}/`, `${scheme}${withOther('//HOST/x')}`]),
      ...BETWEEN_HOSTS.flatMap((between) => ['http://', '//'].map((scheme) => `${scheme}${host}${between}${other}/x`)),
      ...PATHS.flatMap((path) => ['http://', 'HTTP:\\\\', '//'].map((scheme) => `${scheme}${withOther(path)}`)),
      ...ALIASES.flatMap((alias) => ['', `//${other}/x`].map((path) => `http://${alias.replace('PORT', port)}${path}`)),
      // Only the redirect's own base makes a complete address of these.
      ...PATHS.filter((path) => /^[/\\?#]/.test(path)).map((path) => path.replace('HOST', other)),
      // The answer there is a redirect again, to a relative address: relative to what?
      ...[`//${other}/again`, `/again//${other}/`, `/again?//${other}`].map((path) => `http://${host}${path}`),
    ];
  });
  return [...new Set(addresses)];
}

/** A server that speaks just enough HTTP, and keeps all that it receives. */
export class WatchedServer implements AsyncDisposable {
  readonly host: string;
  /** Everything received, by connection. */
  readonly received: string[] = [];
  readonly #server: Server;

  private constructor(server: Server, address: string) {
    this.#server = server;
    const { port } = server.address() as { port: number };
    this.host = `${address.includes(':') ? `[${address}]` : address}:${port}`;
  }

  /** Without a location it answers with `status`. A location may have any bytes. */
  static async start(
    locationFor: (path: string) => string | undefined = () => undefined,
    port = 0,
    address = '127.0.0.1',
    status = '200 OK',
  ) {
    const server = createServer((socket) => {
      const index = watched.received.push('') - 1;
      socket.on('error', () => {});
      socket.setEncoding('latin1').on('data', (text: string) => {
        watched.received[index] += text;
        const path = /^[A-Z]+ (\S*)/.exec(watched.received[index] ?? '')?.[1] ?? '';
        const location = locationFor(path);
        const start = location === undefined ? status : `302 Found\r\nlocation: ${location}`;
        socket.end(`HTTP/1.1 ${start}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`, 'latin1');
      });
    });
    server.listen(port, address);
    await once(server, 'listening');
    const watched = new WatchedServer(server, address);
    return watched;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await once(this.#server, 'close');
  }
}
