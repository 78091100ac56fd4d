package main

import (
	"fmt"
	"os"
	"time"
)

// progress displays the progress of a package: in one line of a terminal, or as a new line every
// half minute.
type progress struct {
	what         string
	terminal     bool
	start, shown time.Time
}

func newProgress(what string) *progress {
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &progress{what: what, terminal: terminal, start: time.Now(), shown: time.Now()}
}

func (p *progress) line(format string, args ...any) {
	text := p.what + ": " + fmt.Sprintf(format, args...)
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r\033[K%s", text)
	} else if time.Since(p.shown) > 30*time.Second {
		p.shown = time.Now()
		fmt.Fprintln(os.Stderr, text)
	}
}

func (p *progress) mutants(done, all int, counts map[string]int) {
	p.line("mutant %d/%d, %d killed, %d lived, %d uncovered, %v", done, all, counts[killed], counts[lived], counts[uncovered],
		time.Since(p.start).Round(time.Second))
}

func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
}
