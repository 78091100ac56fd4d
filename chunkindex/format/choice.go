package format

import (
	"fmt"
	"strings"
)

// ChoiceError reports objects that are likely to be misinterpreted, with the possible ways to
// continue.
type ChoiceError struct {
	Cause string
	Ways  []Way
}

// Way is an option of millrace index or a command of another program.
type Way struct {
	Flag    string // the option, without dashes
	Value   any    // value of the option: a string or a number
	Command string // command to run in the dataset's directory, instead of an option
	Effect  string // effect of the option or command, beginning with a verb
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
