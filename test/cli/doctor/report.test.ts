import { describe, expect, it } from 'vitest';
import { type CheckResult, describeReport } from '../../../src/cli/doctor/report.ts';

describe('the recommended options', () => {
  const reportOf = (status: CheckResult['status'], options: string[] = []) =>
    describeReport({ ok: true, checks: [{ check: 'token', status, text: 'so' }], options, differences: [] });

  it('are printed for a token that took another encoding, with its warning', () => {
    expect(reportOf('warning', ['tokenRequest: formRequest()'])).toMatch(
      /^warning {2}token {7}so\n\nRecommended options .*\n {2}tokenRequest: formRequest\(\)\n\nAll checks passed, with 1 warning\.\n$/,
    );
    expect(reportOf('ok')).toContain('  none: the defaults fit');
  });

  it.each(['failed', 'skipped'] as const)('are left out without a token: %s', (status) => {
    expect(reportOf(status)).not.toContain('Recommended');
  });
});
