import { isLoopback } from './control/access.ts';
import type { ControlContext, PortalAddress } from './control/context.ts';
import { ControlPlane } from './control/control-plane.ts';
import { Feed } from './control/feed.ts';
import { type ResolvedOptions, resolveOptions, type SandboxOptions } from './options.ts';
import { RunningSandbox, type Sandbox } from './sandbox.ts';
import { TokenPlane } from './service/token-plane.ts';
import { finishScenario, finishWithoutFault } from './state/judge/scenario-run.ts';
import { History } from './state/ledger/history.ts';
import { Ledger } from './state/ledger/ledger.ts';
import { Directory } from './state/world/directory.ts';
import { Faults } from './state/world/faults.ts';
import { SecretFiles } from './state/world/secret-files.ts';
import { Secrets } from './state/world/secrets.ts';
import { Tokens } from './state/world/tokens.ts';
import { type ClockChange, VirtualClock } from './state/world/virtual-clock.ts';
import type { Topic, World } from './state/world/world.ts';

/**
 * Starts a sandbox. Throws `invalid_options` listing all unknown and invalid options.
 *
 * @example
 * ```ts
 * await using service = await startSandbox({ owners: 2, lifetimeSeconds: 60 });
 * const { url, clientId, clientSecret, accessKeys } = service;
 * const source = new TokenEndpoint({ baseUrl: url, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source, clock: service.clock });
 * await tokens.getToken(accessKeys[0] ?? '');
 * console.log(service.ledger.count()); // → 1
 * ```
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const resolved = resolveOptions(options);
  let changed: (topic: Topic) => void = () => {};
  const world = worldOf(resolved, (topic) => changed(topic));
  const files = resolved.secretsFolder === undefined ? undefined : new SecretFiles(resolved.secretsFolder, world);
  const tokenPlane = new TokenPlane(world, resolved.unref);
  const feed = new Feed();
  changed = (topic) => {
    if (topic === 'owners' || topic === 'scenario' || topic === 'all') world.ownersVersion++;
    feed.note();
    if (topic === 'client' || topic === 'owners' || topic === 'all') files?.update();
  };
  listen(world, tokenPlane, feed);
  const close = async () => {
    feed.close();
    finishScenario(world, 'the sandbox was closed');
    await Promise.all([tokenPlane.close(), controlPlane?.close()]);
  };
  let controlPlane: ControlPlane | undefined;
  try {
    const { host } = resolved;
    const port = await tokenPlane.listen(resolved.port, host);
    const url = urlOf(host, port);
    const token = isLoopback(host) ? undefined : world.secrets.random('sbx_control_');
    let portal: PortalAddress = { url: '', token };
    const context: ControlContext = {
      world,
      url,
      files,
      portal: () => portal,
      tokenPlaneListens: () => tokenPlane.listening,
    };
    const rules = { loopback: isLoopback(host), host, token };
    controlPlane = new ControlPlane(context, feed, rules, resolved.unref);
    const portalPort = await controlPlane.listen(resolved.portalPort, host);
    portal = { url: urlOf(host, portalPort), token };
    for (const rule of resolved.faults) world.faults.add(rule);
    return new RunningSandbox(context, close);
  } catch (error) {
    await close();
    throw error;
  }
}

function worldOf(resolved: ResolvedOptions, changed: (topic: Topic) => void): World {
  const clock: VirtualClock = new VirtualClock((change) => {
    followClock(history, clock, change);
    changed('clock');
  });
  const history = new History();
  const secrets = new Secrets(resolved.seed);
  const directory = new Directory(secrets);
  directory.seed(resolved.owners);
  return {
    clock,
    secrets,
    directory,
    tokens: new Tokens(secrets),
    ledger: new Ledger(clock, resolved.ledgerSize),
    faults: new Faults(clock, directory.owners),
    history,
    profile: resolved.profile,
    answers: 0,
    scenario: undefined,
    verdicts: new Map(),
    ownersVersion: 0,
    start: { owners: resolved.owners, profile: structuredClone(resolved.profile) },
    changed,
  };
}

/** Records jumps and frozen spans for the time rail. */
function followClock(history: History, clock: VirtualClock, change: ClockChange): void {
  if (change.kind === 'advanced') history.jump(change.fromMs, change.toMs);
  else history.freeze(change.kind === 'frozen', clock.now());
}

/** Connects the parts of the world that change by themselves to those that show it. */
function listen(world: World, tokenPlane: TokenPlane, feed: Feed): void {
  world.ledger.onChange = () => feed.note();
  world.tokens.onChange = () => feed.note();
  world.faults.onChange = (rules) => {
    if (rules) {
      tokenPlane.obeyFaults();
      world.history.followFaults(world.faults.spans(), world.clock.now());
      finishWithoutFault(world);
    }
    world.changed('faults');
  };
}

/** The URL of a server on this address; a wildcard address is reached as loopback. */
function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
