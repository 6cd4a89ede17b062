import { fastify } from 'fastify';
import { answerOf } from './answer.mjs';

export function createApp(registry, apiUrl, accessKeyOf) {
  const app = fastify({ logger: { level: 'warn' } });
  app.addHook('onClose', () => registry.close());
  app.decorateRequest('callService', fetch);
  app.addHook('onRequest', async (request, reply) => {
    const accessKey = await accessKeyOf(String(request.headers['x-tenant']));
    if (accessKey === undefined) return reply.code(404).send({ error: 'unknown_tenant' });
    request.callService = registry.ownerFetch(accessKey);
  });
  app.get('/device', async (request, reply) => {
    const warn = (error) => request.log.warn({ err: error }, 'call failed');
    const { status, headers, body } = await answerOf(request.callService, `${apiUrl}/echo`, warn);
    return reply.code(status).headers(headers).send(body);
  });
  return app;
}
