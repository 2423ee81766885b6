/** What one run of a flow came to. */
export type FlowEnd =
  | {
      readonly kind: 'authorized';
      readonly token: string | undefined;
      /** By a refresh token: nobody else than before. */
      readonly renewed: boolean;
      readonly scope: string | undefined;
    }
  /** A person is asked, by this flow or by one before. */
  | { readonly kind: 'pending' }
  /** Somebody else obtained other credentials in the meantime. */
  | { readonly kind: 'elsewhere' }
  /** Not begun: those before came to nothing, a moment ago. */
  | { readonly kind: 'paused' };
