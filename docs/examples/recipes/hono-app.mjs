import { Hono } from 'hono';
import { createMiddleware } from 'hono/factory';
import { answerOf } from './answer.mjs';

export function createApp(registry, apiUrl, accessKeyOf) {
  const asTenant = createMiddleware(async (context, next) => {
    const accessKey = await accessKeyOf(context.req.header('x-tenant') ?? '');
    if (accessKey === undefined) return context.json({ error: 'unknown_tenant' }, 404);
    context.set('callService', registry.ownerFetch(accessKey));
    return next();
  });

  return new Hono().get('/device', asTenant, async (context) => {
    const { status, headers, body } = await answerOf(context.var.callService, `${apiUrl}/echo`, console.warn);
    return new Response(body, { status, headers });
  });
}
