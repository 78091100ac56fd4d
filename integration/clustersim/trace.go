package clustersim

import (
	"bytes"
	"time"

	"github.com/rs/zerolog"
)

// trace sends an event to the history's Trace, if there is one.
func (r *run) trace(format string, args ...any) {
	if r.history.Trace != nil {
		r.history.Trace("%v "+format, append([]any{time.Since(r.began)}, args...)...)
	}
}

// log returns the logger of a process.
func (r *run) log(boot string) zerolog.Logger {
	if r.history.Trace == nil {
		return zerolog.Nop()
	}
	return zerolog.New(said{r, boot})
}

type said struct {
	run  *run
	boot string
}

func (s said) Write(b []byte) (int, error) {
	s.run.trace("%s says %s", s.boot, bytes.TrimSpace(b))
	return len(b), nil
}
