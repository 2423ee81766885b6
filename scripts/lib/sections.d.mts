export function sectionNames(text: string): string[];
export function fillSections(text: string, contents: ReadonlyMap<string, string>): string;
export function markdownTable(head: readonly string[], rows: readonly (readonly unknown[])[]): string;
