export interface FuzzedSandbox {
  url: string;
  portalUrl: string;
  clientId: string;
  clientSecret: string;
  accessKeys: string[];
  /** What no answer may hold. */
  secrets: string[];
  /** `GET /api/state` and so on: what the control plane takes. */
  operations: string[];
}

export interface FuzzReport {
  sent: number;
  answered: number;
  cut: number;
  statuses: Record<string, number>;
  problems: string[];
}

export function fuzz(options: {
  sandbox: FuzzedSandbox;
  count: number;
  seed: number;
  concurrency?: number;
  onProgress?: (report: FuzzReport) => void;
}): Promise<FuzzReport>;
