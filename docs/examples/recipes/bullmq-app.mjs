import { DelayedError, UnrecoverableError } from 'bullmq';
import { isOwnerTokenError } from 'owner-token-registry';

/** What a worker does with a job. Jobs name the tenant; access keys are secrets and stay out of the queue. */
export function createProcessor(registry, apiUrl, accessKeyOf) {
  return async (job, token) => {
    const accessKey = await accessKeyOf(job.data.tenant);
    if (accessKey === undefined) throw new UnrecoverableError('unknown tenant');
    try {
      const response = await registry.ownerFetch(accessKey)(`${apiUrl}/echo`);
      if (!response.ok) throw new Error(`the API responded with ${response.status}`);
      return await response.json();
    } catch (error) {
      if (!isOwnerTokenError(error)) throw error; // the API failed: BullMQ retries
      // A revoked key, for example, is final. A wrong client secret (`client_refused`) will be fixed, so that job waits.
      if (!error.retryable && error.code !== 'client_refused') throw new UnrecoverableError(error.code);
      await job.moveToDelayed(error.retryAtMs ?? Date.now() + 1_000, token);
      throw new DelayedError();
    }
  };
}
