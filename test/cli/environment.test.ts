import { describe, expect, it } from 'vitest';
import { startSandbox } from '../../src/sandbox/index.ts';
import { runCommand } from '../helpers/terminal.ts';

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary-key' };

describe.each(['token', 'doctor'])('%s', (command) => {
  it('names all missing variables at once', async () => {
    const { code, err } = await runCommand([command], { OTR_CLIENT_ID: 'x', OTR_ACCESS_KEY: '' });
    expect(code).toBe(2);
    expect(err).toContain('not set in the environment: OTR_BASE_URL, OTR_CLIENT_SECRET, OTR_ACCESS_KEY');
  });

  it.each([
    ['localhost:4010', 'add http://'],
    ['127.0.0.1:4010/canary', 'add http://'],
    ['canary.example.com', 'add https://'],
    ['canary.example.com:8443/path', 'add https://'],
    ['canary', 'expected a URL such as https://'],
    ['https://', 'expected a URL such as https://'],
    ['ftp://canary.example.com', 'expected http:// or https://'],
    ['"https://canary.example.com"', 'remove the quotation marks'],
    ['https://me:canary@example.com', 'remove the user name and password'],
    ['https://example.com?canary', 'remove everything from the "?" on'],
    ['https://example.com/#canary', 'remove everything from the "#" on'],
    ['http://canary.example.com', 'plain http would send the secrets unencrypted: use https://'],
    ['http://127.canary.example.com', 'plain http would send the secrets unencrypted: use https://'],
  ])('explains what is wrong with OTR_BASE_URL, without repeating it: %s', async (url, expected) => {
    const { code, out, err } = await runCommand([command], { ...CANARIES, OTR_BASE_URL: url });
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(`OTR_BASE_URL: ${expected}`);
    expect(err).not.toContain('canary');
  });

  it.each([
    [(value: string) => `${value}\n`, 'begins or ends with white space'],
    [(value: string) => `"${value}"`, 'is enclosed in quotation marks'],
    [(value: string) => `“${value}”`, 'is enclosed in quotation marks'],
  ])('warns of what copying leaves around a value: %s', async (wrap, expected) => {
    await using sandbox = await startSandbox({ owners: 1 });
    const { url: OTR_BASE_URL, clientId: OTR_CLIENT_ID, clientSecret: OTR_CLIENT_SECRET } = sandbox;
    const OTR_ACCESS_KEY = wrap(sandbox.accessKeys[0] ?? '');
    const { code, err } = await runCommand([command], {
      OTR_BASE_URL,
      OTR_CLIENT_ID,
      OTR_CLIENT_SECRET,
      OTR_ACCESS_KEY,
    });
    expect(code).toBe(1);
    expect(err).toContain(`warning: OTR_ACCESS_KEY ${expected}`);
    expect(err).not.toContain(sandbox.accessKeys[0]);
  });
});
