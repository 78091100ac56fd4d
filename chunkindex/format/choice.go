package format

import (
	"fmt"
	"strings"
)

// ChoiceError is the fault of objects that would be read otherwise than their writer meant them, with the ways to go on.
type ChoiceError struct {
	Cause string
	Ways  []Way
}

// Way is one of them: an option of millrace index, or the command of another program.
type Way struct {
	Flag    string // the option, without dashes
	Value   any    // of the option: a string or a number
	Command string // in place of the option, run in the dataset's directory
	Effect  string // a verb first
}

func (e *ChoiceError) Error() string {
	var ways []string
	for _, w := range e.Ways {
		way := w.Command
		if w.Flag != "" {
			way = fmt.Sprintf("--%s '%v'", w.Flag, w.Value)
		}
		ways = append(ways, way+" "+w.Effect)
	}
	return e.Cause + ": " + strings.Join(ways, ", ")
}
