import { answerOf, jsonAnswer } from './answer.mjs';

export function createHandler(registry, apiUrl, accessKeyOf) {
  // Events name the tenant. Access keys are secrets, and events are logged.
  return async (event) => {
    const accessKey = await accessKeyOf(event.tenant);
    const { status, ...rest } =
      accessKey === undefined
        ? jsonAnswer(404, { error: 'unknown_tenant' })
        : await answerOf(registry.ownerFetch(accessKey), `${apiUrl}/echo`, console.warn);
    return { statusCode: status, ...rest };
  };
}
