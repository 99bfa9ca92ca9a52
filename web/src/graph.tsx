import type { RefObject } from "preact";
export function GraphView({ main }: { main: RefObject<HTMLElement | null> }) { return <main id="main" ref={main} tabIndex={-1} />; }
