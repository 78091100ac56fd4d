"""Planted bugs in what makes a release."""

PLANTS = [
    (
        "files of an archive have the time at which the release was made",
        "./integration/release TestRelease",
        [("tools/release/files.go", "Mode: f.mode, ModTime: at,", "Mode: f.mode, ModTime: time.Now(),")],
    ),
    (
        "the image has no authorities to trust",
        "./integration/release TestRelease",
        [("tools/release/image.go", "if root.Constraint != nil {", "if root.Constraint == nil {")],
    ),
    (
        "the program of a package cannot be run",
        "./integration/release TestRelease",
        [("tools/release/package.go", '"/usr/bin/millrace", 0o755)', '"/usr/bin/millrace", 0o644)')],
    ),
    (
        "the unit of systemd has a setting that systemd does not know",
        "./integration/release TestUnit",
        [("deploy/systemd/millrace.service", "\nPrivateDevices=yes\n", "\nPrivateDevice=yes\n")],
    ),
    (
        "the unit of systemd starts a program that no package brings",
        "./integration/release TestUnit",
        [("deploy/systemd/millrace.service", "ExecStart=/usr/bin/millrace serve", "ExecStart=/usr/local/bin/millrace serve")],
    ),
    (
        "the unit of systemd starts the gateway with a flag that it does not have",
        "./integration/release TestUnit",
        [("deploy/systemd/millrace.service", "ExecStart=/usr/bin/millrace serve --config", "ExecStart=/usr/bin/millrace serve --settings")],
    ),
]
