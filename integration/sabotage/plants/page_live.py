"""Planted bugs of the page as time passes: what it asks, keeps and says, and what a keyboard reaches."""

PAGE = "gateway/dashboard/page/"

PLANTS = [
    (
        "a hidden tab of the page goes on asking",
        "./integration/browser TestHiddenTabsAskNothing",
        [(PAGE + "api.js", "    if (document.hidden) await visible(signal);\n", "")],
    ),
    (
        "the page listens once more with each look",
        "./integration/browser TestMemoryIsFlat",
        [(PAGE + "waiting.js", "    this.drawJobs();\n", "    this.drawJobs();\n    document.addEventListener(\"themechange\", () => this.drawRanks());\n")],
    ),
    (
        "the page gives a gateway up that has not answered once",
        "./integration/browser TestPageOutlivesTheGateway",
        [(PAGE + "api.js", "      failed(e);\n", "      failed(e);\n      if (e.status === 0) return;\n")],
    ),
    (
        "new figures take the focus away",
        "./integration/browser TestWaitingUnderLoad",
        [(PAGE + "waiting.js", "const patch = (node, ...children) => match(node, fill(node.cloneNode(), ...children));", "const patch = fill;")],
    ),
    (
        "the first figures of the waiting push the rest down",
        "./integration/browser TestWaitingUnderLoad",
        [(PAGE + "waiting.js", "    this.build();\n", "    this.build();\n    this.begin();\n")],
    ),
    (
        "a rank that is closed leaves the keyboard at the start of the page",
        "./integration/browser TestKeyboard",
        [(PAGE + "waiting.js", ".find((a) => a.hash === this.opened)?.focus();", ".find((a) => a.hash === this.opened);")],
    ),
    (
        "of 10,000 ranks the page gets some",
        "./integration/browser TestMany",
        [("datapath/lookahead/ranks.go", "	maxRanks = 16384 ", "	maxRanks = 8192 ")],
    ),
]
