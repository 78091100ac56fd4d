package format

import (
	"cmp"
	"strings"
)

// ChoiceError is the fault of objects that would be read otherwise than their writer meant them, with the ways to go on.
type ChoiceError struct {
	Cause string
	Ways  []Way
}

// Way is one of them: options of millrace index, or the command of another program.
type Way struct {
	Options string // as a user types them, with quotes
	Command string // in place of options, run in the dataset's directory
	Effect  string // a verb first
}

func (e *ChoiceError) Error() string {
	var ways []string
	for _, w := range e.Ways {
		ways = append(ways, cmp.Or(w.Options, w.Command)+" "+w.Effect)
	}
	return e.Cause + ": " + strings.Join(ways, ", ")
}
