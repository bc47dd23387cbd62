/* How the approval page looks: one column, for a phone first, light and dark as the reader has it. */
export const style = `
:root{color-scheme:light dark;--ink:#1c1e21;--paper:#fff;--soft:#f3f4f6;--line:#c9cdd3;--quiet:#565d66;--go:#0b6b3a;--no:#a61b1b}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--paper:#16181c;--soft:#23262c;--line:#4a5059;--quiet:#a9b0ba;--go:#2f9e62;--no:#d9534f}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
main{max-width:44rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem;line-height:1.3;overflow-wrap:anywhere}
h2{font-size:1rem;margin:1.2rem 0 .4rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9rem}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.7rem;white-space:pre-wrap;overflow-wrap:anywhere;max-height:60vh;overflow:auto;unicode-bidi:isolate;direction:ltr}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem .9rem;margin:.8rem 0}
dt{color:var(--quiet)}dd{margin:0;overflow-wrap:anywhere}
label{display:block;margin:.9rem 0 .25rem;font-weight:600}
input,select,textarea{width:100%;font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.6rem}
.buttons{display:flex;gap:.7rem;margin:1.2rem 0}
button{flex:1;font:inherit;font-weight:600;color:#fff;border:0;border-radius:6px;padding:.8rem;min-height:3rem}
.approve{background:var(--go)}.reject{background:var(--no)}
button:focus-visible,input:focus-visible,select:focus-visible,textarea:focus-visible,pre:focus-visible{outline:3px solid #4c8bf5;outline-offset:2px}
.small{color:var(--quiet);font-size:.85rem;font-weight:400;overflow-wrap:anywhere}
.problem{border-left:4px solid var(--no);padding:.5rem .8rem;background:var(--soft)}
.risk-high{color:var(--no)}
`
