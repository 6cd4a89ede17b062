// app/api/device/route.ts, where the paths begin with ../../../lib
import { answerOf, jsonAnswer } from './answer.mjs';
import { accessKeyOf } from './owner-tokens.mjs';
import { ownerTokens } from './registry.mjs';

export async function GET(request) {
  const accessKey = await accessKeyOf(request.headers.get('x-tenant') ?? '');
  const { body, ...rest } =
    accessKey === undefined
      ? jsonAnswer(404, { error: 'unknown_tenant' })
      : await answerOf(ownerTokens().ownerFetch(accessKey), `${process.env.OTR_BASE_URL}/echo`, console.warn);
  return new Response(body, rest);
}
