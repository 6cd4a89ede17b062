import express from 'express';
import { answerOf } from './answer.mjs';

export function createApp(registry, apiUrl, accessKeyOf) {
  const asTenant = async (request, response, next) => {
    const accessKey = await accessKeyOf(request.get('x-tenant') ?? '');
    if (accessKey === undefined) return void response.status(404).json({ error: 'unknown_tenant' });
    response.locals.callService = registry.ownerFetch(accessKey);
    next();
  };

  const app = express();
  app.get('/device', asTenant, async (_request, response) => {
    const { status, headers, body } = await answerOf(response.locals.callService, `${apiUrl}/echo`, console.warn);
    response.status(status).set(headers).send(body);
  });
  return app;
}
