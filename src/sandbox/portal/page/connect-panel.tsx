import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { CredentialsView, TryView } from '../../control/shapes.ts';
import { ask } from './api.ts';
import type { Model } from './model.ts';
import { Action, CopyButton } from './parts.tsx';

const credentials = () => ask<CredentialsView>('GET', '/api/credentials');

/** A first step for new users: the settings, and a button that sends one request. Closed once there were requests. */
export function ConnectPanel({ model }: { model: Model }) {
  const [shown, setShown] = useState<CredentialsView | undefined>();
  const [tried, sendOne] = useTry({});
  const [first] = useState(model.figures.total === 0);
  return (
    <details class="connect" open={first}>
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
        </div>
      </div>
    </details>
  );
}

/** Sends a request from the page. `tried`: what it and its call of /echo were answered with. */
export function useTry(body: {
  owner?: string;
  app?: string;
}): [tried: ComponentChildren, send: () => Promise<string>] {
  const [tried, setTried] = useState<TryView | undefined>();
  const send = async () => {
    setTried(await ask<TryView>('POST', '/api/try', body));
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
