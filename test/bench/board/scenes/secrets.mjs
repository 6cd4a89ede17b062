/** What leaks: printed objects and errors, console output, redirects. */

import { inspect } from 'node:util';
import { SECRET } from '../scene.mjs';

const KEY = 'canary-access-key';

/** As an application prints it: in a log, in an error report, in JSON. */
function printsOf(object) {
  const prints = [inspect(object, { depth: 8, showHidden: true, maxArrayLength: null }), String(object)];
  try {
    prints.push(JSON.stringify(object) ?? '');
  } catch {
    // Circular: nobody gets it as JSON.
  }
  if (object instanceof Error) prints.push(object.stack ?? '', inspect(object.cause, { depth: 8, showHidden: true }));
  return prints.join('\n');
}

const PLAIN = { status: 400, body: { error: 'invalid_grant', error_description: `no such owner: ${KEY}` } };
const ECHO = { status: 500, body: { received: { client_secret: SECRET, appliance_owner_scope: KEY } } };

async function printed(scene) {
  const leaks = new Set();
  await scene.script({ latencyMs: 2, lifetime: 3600 });
  const opened = await scene.open();
  const token = await opened.getToken(KEY);
  const search = (where, text) => {
    for (const [what, value] of [
      ['secret', SECRET],
      ['key', KEY],
      ['token', token],
    ]) {
      if (text.includes(value)) leaks.add(`${what} in ${where}`);
    }
  };
  for (const object of opened.printed(KEY)) search('objects', printsOf(object));
  for (const answer of [PLAIN, ECHO]) {
    await scene.script({ latencyMs: 2, answer });
    const { error } = await scene.call(`${KEY}-${answer.status}`, opened.getToken);
    if (error) search('errors', printsOf(error));
  }
  return { good: leaks.size === 0, figure: [...leaks].join(', ') || 'nothing', needles: [SECRET, KEY, token] };
}

/** What the library itself wrote to the console counts too. */
function judgeOutput(result, output) {
  const { needles = [], ...rest } = result;
  if (!needles.some((needle) => output.includes(needle))) return rest;
  return { good: false, figure: `${rest.good ? '' : `${rest.figure}, `}printed on the console` };
}

async function redirects(scene) {
  const leaks = [];
  const { getToken } = await scene.open();
  for (const redirect of [301, 302, 303, 307, 308]) {
    await scene.script({ latencyMs: 2, redirect });
    await getToken(`owner ${redirect}`).catch(() => {});
    if ((await scene.ledger()).leaked > 0) leaks.push(redirect);
  }
  return {
    good: leaks.length === 0,
    figure: leaks.length ? `the secret followed ${leaks.join(', ')}` : 'nothing followed',
  };
}

export const secrets = [
  {
    id: 'secrets',
    criterion: 'printed objects and errors: no client secret, access key or token in them',
    concerns: ['request', 'cache'],
    title: 'its objects and errors are printed (inspect, JSON, stack, cause); the service echoes the request',
    good: 'no client secret, access key or token in the output',
    run: printed,
    judgeOutput,
  },
  {
    id: 'redirects',
    criterion: 'a redirect to another origin: the client secret is not sent there',
    concerns: ['request'],
    title: 'the token endpoint redirects to another origin',
    good: 'the client secret is not sent there',
    run: redirects,
  },
];
