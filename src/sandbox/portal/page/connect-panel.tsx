import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { Status } from '../../../page-engine/parts.tsx';
import { spanWord } from '../../../page-engine/words.ts';
import type { CredentialsView, TryView } from '../../control/shapes.ts';
import { ask, send } from './api.ts';
import type { Model } from './model.ts';
import { Action, CopyButton, Toggle } from './parts.tsx';

const credentials = () => ask<CredentialsView>('GET', '/api/credentials');

/** A first step for new users: the settings, and a button that sends one request. Closed once there were requests, unless the client is disabled. */
export function ConnectPanel({ model }: { model: Model }) {
  const [shown, setShown] = useState<CredentialsView | undefined>();
  const [tried, sendOne] = useTry();
  const [first] = useState(model.figures.total === 0);
  // A rotation makes the secrets shown out of date.
  const newest = model.client.secrets[0]?.fingerprint;
  useEffect(() => setShown(undefined), [newest]);
  return (
    <details class="connect" open={first || !model.client.enabled}>
      <summary>Connect an integration</summary>
      <div class="columns">
        <div>
          <h2>Put this into its .env</h2>
          <pre class="env">{shown?.env ?? model.env}</pre>
          <div class="row">
            <CopyButton text={async () => (await credentials()).env}>Copy with secrets</CopyButton>
            <Action
              act={async () => {
                setShown(shown ? undefined : await credentials());
                return undefined;
              }}
            >
              {shown ? 'Hide secrets' : 'Show secrets'}
            </Action>
          </div>
        </div>
        <div>
          <h2>Or send one request from here</h2>
          <p>Sends one token request for the first owner, and one call to /echo with the token.</p>
          <Action look="main" act={sendOne}>
            Send one request
          </Action>
          {tried}
          <ClientState model={model} />
        </div>
      </div>
    </details>
  );
}

/** The client's state and secrets, with buttons to rotate and to disable. */
function ClientState({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  const { enabled, secrets } = model.client;
  const rotate = (overlapMs: number) => () => {
    const said = overlapMs > 0 ? `expires in ${spanWord(overlapMs)}` : 'no longer works';
    return send(`New secret issued; the old one ${said}.`, 'POST', '/api/client/rotate', { overlapMs });
  };
  return (
    <section aria-label="Client">
      <div class="row tight">
        <Status good={enabled}>client {enabled ? 'enabled' : 'disabled'}</Status>
        {secrets.map(({ fingerprint, validUntilMs = Infinity }) => (
          <span key={fingerprint} class="secret">
            secret <code>{fingerprint}</code>
            {validUntilMs < Infinity &&
              (validUntilMs > nowMs ? `, expires in ${spanWord(validUntilMs - nowMs)}` : ', expired')}
          </span>
        ))}
      </div>
      <div class="row tight">
        <Action look="quiet" act={rotate(0)}>
          Rotate secret
        </Action>
        <Action look="quiet" act={rotate(300_000)}>
          Rotate with 5 min overlap
        </Action>
        <Toggle path="/api/client" name="client" enabled={enabled} />
      </div>
    </section>
  );
}

/** Sends a request from the page. `tried`: its result and that of the call to /echo. */
export function useTry(owner?: string): [tried: ComponentChildren, send: () => Promise<string>] {
  const [tried, setTried] = useState<TryView | undefined>();
  const send = async () => {
    setTried(await ask<TryView>('POST', '/api/try', { ...(owner && { owner }) }));
    return '1 request was sent.';
  };
  return [tried && <Tried tried={tried} />, send];
}

function Tried({ tried }: { tried: TryView }) {
  const { status, socketError, body, echoStatus, echoOwner } = tried;
  return (
    <>
      <p>
        {socketError ? `No answer: ${socketError}. ` : `Token request: ${status}. `}
        {echoStatus !== undefined && `/echo: ${echoStatus}${echoOwner ? `, accepted for ${echoOwner}` : ''}.`}
      </p>
      {body && <pre>{body}</pre>}
    </>
  );
}
