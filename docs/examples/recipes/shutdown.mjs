/**
 * Ends the process after SIGTERM or SIGINT. For `graceMs` it still answers every call, with `Connection: close`, so that clients open
 * their next connection to another process. Then calls in progress end, within `limitMs`.
 */
export function closeOnSignal(server, close, { graceMs = 1_000, limitMs = 10_000 } = {}) {
  let isClosing = false;
  server.prependListener('request', (_request, response) => {
    if (isClosing) response.setHeader('connection', 'close');
  });
  const closeServer = () => {
    const sweep = setInterval(() => server.closeIdleConnections(), 50);
    setTimeout(() => server.closeAllConnections(), limitMs).unref();
    server.close(() => {
      clearInterval(sweep);
      void close().finally(() => process.exit());
    });
  };
  const shutDown = () => {
    if (isClosing) return;
    isClosing = true;
    setTimeout(closeServer, graceMs);
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, shutDown);
}
