import type { RefObject } from "preact";
export function ApiView({ main }: { main: RefObject<HTMLElement | null> }) { return <main id="main" ref={main} tabIndex={-1} />; }
