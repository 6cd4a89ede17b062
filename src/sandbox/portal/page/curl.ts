import type { CredentialsView, LedgerEntry } from '../../control/shapes.ts';

/**
 * A request as a curl command. Unless secrets are given, the command reads them from the environment variables of the CLI.
 * They are never arguments, which other users of the machine could see.
 */
export function curlOf(entry: Pick<LedgerEntry, 'kind' | 'owner'>, url: string, secrets?: CredentialsView): string {
  if (entry.kind !== 'token') {
    return `curl -sS '${url}/echo' \\\n  -H @- <<END\nauthorization: Bearer $OTR_TOKEN\nEND`;
  }
  const fields = {
    grant_type: 'client_credentials',
    client_id: secrets?.clientId ?? '$OTR_CLIENT_ID',
    client_secret: secrets?.clientSecret ?? '$OTR_CLIENT_SECRET',
    appliance_owner_scope: secrets?.accessKey ?? '$OTR_ACCESS_KEY',
  };
  const note = secrets || !entry.owner ? '' : `# OTR_ACCESS_KEY: the access key of ${entry.owner}\n`;
  const command = `curl -sS '${url}/auth/v1/token' \\\n  -H 'content-type: application/json' -d @- <<END`;
  return `${note}${command}\n${JSON.stringify(fields, null, 2)}\nEND`;
}
