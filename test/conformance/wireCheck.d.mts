export interface Write {
  readonly socket: number;
  readonly port: number;
  readonly data: string;
}
export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
export function readRecord(text: string): {
  readonly writes: readonly Write[];
  readonly url: string | null;
  readonly exitCode: number | null;
};
export function requestsTo(writes: readonly Write[], port: number): readonly HttpRequest[];
export function judgeWire(what: {
  readonly leg: string;
  readonly writes: readonly Write[];
  readonly url: string;
}): { readonly problems: readonly string[]; readonly messages: readonly string[] };
