import { isLoopback } from './control/access.ts';
import { ControlPlane } from './control/control-plane.ts';
import { Feed } from './control/feed.ts';
import { type ResolvedOptions, resolveOptions, type SandboxOptions } from './options.ts';
import { RunningSandbox, type Sandbox } from './sandbox.ts';
import { TokenPlane } from './service/token-plane.ts';
import { Directory } from './state/directory.ts';
import { Faults } from './state/faults.ts';
import { Ledger } from './state/ledger.ts';
import { Secrets } from './state/secrets.ts';
import { StateFile } from './state/state-file.ts';
import { Tokens } from './state/tokens.ts';
import { VirtualClock } from './state/virtual-clock.ts';
import type { Topic, World } from './state/world.ts';

/** Starts a sandbox. Unknown or bad options are refused, all of them at once. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const resolved = resolveOptions(options);
  let changed: (topic: Topic) => void = () => {};
  const world = worldOf(resolved, (topic) => changed(topic));
  const stateFile = resolved.stateFile === undefined ? undefined : new StateFile(resolved.stateFile, world);
  stateFile?.load();
  const tokenPlane = new TokenPlane(world);
  const feed = new Feed(world);
  changed = (topic) => {
    feed.note(topic);
    stateFile?.touch();
  };
  listen(world, tokenPlane, feed, stateFile);
  const close = async () => {
    feed.close();
    world.scenario?.cancel();
    await Promise.all([tokenPlane.close(), controlPlane?.close()]);
    stateFile?.write();
  };
  let controlPlane: ControlPlane | undefined;
  try {
    const { host } = resolved;
    const url = urlOf(host, await tokenPlane.listen(resolved.port, host));
    const token = isLoopback(host) ? undefined : world.secrets.random('sbx_control_');
    const context = { world, url, begin: () => feed.stream.begin(), tokenPlaneListens: () => tokenPlane.listening };
    const rules = { loopback: isLoopback(host), host, token };
    controlPlane = new ControlPlane(context, feed.stream, rules);
    const portalUrl = urlOf(host, await controlPlane.listen(resolved.portalPort, host));
    for (const rule of resolved.faults) world.faults.add(rule);
    return new RunningSandbox(world, { url, portalUrl, ...(token !== undefined && { portalToken: token }) }, close);
  } catch (error) {
    await close();
    throw error;
  }
}

function worldOf(resolved: ResolvedOptions, changed: (topic: Topic) => void): World {
  const clock = new VirtualClock(() => changed('clock'));
  const secrets = new Secrets(resolved.seed);
  const directory = new Directory(secrets);
  directory.seed(resolved.owners);
  return {
    clock,
    secrets,
    directory,
    tokens: new Tokens(secrets),
    ledger: new Ledger(clock, resolved.ledgerSize),
    faults: new Faults(clock, directory),
    profile: resolved.profile,
    answers: 0,
    scenario: undefined,
    start: { owners: resolved.owners, profile: structuredClone(resolved.profile) },
    changed,
  };
}

/** Lets those parts of the world that change by themselves tell the others. */
function listen(world: World, tokenPlane: TokenPlane, feed: Feed, stateFile: StateFile | undefined): void {
  world.ledger.onChange = (entry) => feed.noteRequest(entry);
  world.tokens.onChange = (token) => {
    feed.noteToken(token);
    stateFile?.touch();
  };
  world.faults.onChange = (rules) => {
    if (rules) tokenPlane.obeyFaults();
    world.changed('faults');
  };
}

/** Where a server on this address is reached: a wildcard address is reached as loopback. */
function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
