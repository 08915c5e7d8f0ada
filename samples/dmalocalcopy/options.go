package dmalocalcopy

import (
	"flag"
	"fmt"
)

// maxText is the longest text, in bytes.
const maxText = 4096

// options are the flags of this sample.
type options struct {
	text                  string
	sources, destinations int // segments
	tasks                 int
}

func (o *options) declare(fs *flag.FlagSet) {
	const text = "A text that was cut into pieces, copied, and put together from other pieces."
	fs.StringVar(&o.text, "text", text, fmt.Sprintf("copy this `text` of at most %d bytes", maxText))
	fs.StringVar(&o.text, "t", text, "same as -text")
	fs.IntVar(&o.sources, "sources", 3, "`segments` that each text is read from")
	fs.IntVar(&o.destinations, "destinations", 2, "`segments` that each text is written to")
	fs.IntVar(&o.tasks, "tasks", 4, "how many `tasks` copy the text")
}

func (o *options) check() error {
	switch {
	case o.sources < 1 || o.destinations < 1 || o.tasks < 1:
		return fmt.Errorf("-sources %d -destinations %d -tasks %d: want at least 1 of each", o.sources, o.destinations, o.tasks)
	case len(o.text) > maxText:
		return fmt.Errorf("-text: %d bytes, want at most %d", len(o.text), maxText)
	case len(o.text) < max(o.sources, o.destinations):
		return fmt.Errorf("-text: %d bytes, want at least one for each of %d segments", len(o.text), max(o.sources, o.destinations))
	}
	return nil
}
