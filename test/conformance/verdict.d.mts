export interface Check {
  readonly id: string;
  readonly status: string;
  readonly description?: string;
  readonly errorMessage?: string;
}
export function judgeScenario(what: {
  readonly judged: boolean;
  /** Even a client that may go on has to stop in this scenario. */
  readonly isRefusal: boolean;
  /** Of the suite. */
  readonly exitCode: number;
  readonly checks: readonly Check[] | null;
  readonly driverExit: number | null;
  readonly wireProblems: readonly string[];
}): {
  readonly passed: boolean;
  readonly problems: readonly string[];
  readonly succeeded: number;
  readonly scored: number;
};
