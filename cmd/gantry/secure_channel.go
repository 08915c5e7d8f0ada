package main

import (
	"context"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/apps/securechannel"
)

// A secureChannelFlags is the command line of gantry secure-channel.
type secureChannelFlags struct {
	sideFlags
	size     sizeFlag
	messages int64
	loop     bool
	out      string
}

// secureChannelCommand is one side of an exchange of messages, or both: see
// package securechannel.
func secureChannelCommand(c *console) *cobra.Command {
	f := secureChannelFlags{size: 1024, messages: 100_000}
	cmd := &cobra.Command{
		Use:   "secure-channel",
		Short: "exchange messages between two processes, one on the host and one on the DPU",
		Long: `Runs one side of an exchange; start it twice, in two terminals, in any order.
One process is the host, the other one the DPU: that is the one with --rep-pci,
with --side dpu, or with the --pci-addr of a DPU function. Without any of them
the first function of the host is taken. --loop runs both sides in one process.

Each side sends its messages to the other one while it receives, over a producer
and a consumer, and tells how many went each way and how long that took: from
the first submit to the last completion, and from the first message to the last.`,
		Example: `  gantry secure-channel --loop

  gantry secure-channel --side dpu -s 4096 -n 1000000      in one terminal
  gantry secure-channel -s 4096 -n 1000000                 in the other one`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), c) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VarP(&f.size, "msg-size", "s", "bytes of a message, 1 to 65535")
	flags.Int64VarP(&f.messages, "num-msgs", "n", f.messages, "messages that this side sends")
	f.add(flags, securechannel.DefaultWait)
	flags.BoolVar(&f.loop, "loop", false, "run both sides; the addresses are those of the DPU's")
	flags.StringVar(&f.out, "out", "", "also write the JSON document to a `file`")
	return cmd
}

func (f *secureChannelFlags) run(ctx context.Context, c *console) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	o.Note = func(s string) { c.notef("%s", s) }
	show, hide := c.watchMessages()
	o.Progress = show
	var results []securechannel.Result
	if f.loop {
		dpu, host, err := securechannel.Loop(ctx, o)
		hide()
		if err != nil {
			return err
		}
		results = []securechannel.Result{dpu, host}
	} else {
		r, err := securechannel.Run(ctx, o)
		hide()
		if err != nil {
			return err
		}
		results = []securechannel.Result{r}
	}
	d := newSecureChannelDocument(results)
	if f.out != "" {
		if err := writeDocument(f.out, d); err != nil {
			return err
		}
	}
	if c.json {
		return c.emit(d)
	}
	for _, r := range results {
		c.printf("%-4v  sent %d messages of %d bytes in %s ms, %s GB/s; received %d in %s ms\n",
			r.Side, r.Sent, r.Size, fixed(ms(r.Sending), 3), number(speed(r.Sent, r.Size, r.Sending)), r.Received, fixed(ms(r.Receiving), 3))
	}
	return nil
}

// options checks the flags.
func (f *secureChannelFlags) options() (o securechannel.Options, err error) {
	o = securechannel.Options{Messages: f.messages, Size: int(f.size), Device: f.pci, Representor: f.rep}
	switch {
	case o.Size < 1 || o.Size > securechannel.MaxSize:
		return o, usagef("--msg-size %s: 1 to %d bytes are possible", f.size.String(), securechannel.MaxSize)
	case f.messages < 1 || f.messages > securechannel.MaxMessages:
		return o, usagef("--num-msgs %d: 1 to %d are possible", f.messages, int64(securechannel.MaxMessages))
	case f.loop && f.side != "":
		return o, usagef("--side %s: --loop runs both sides", f.side)
	}
	o.Side, o.Wait, err = f.parse("secure-channel")
	return o, err
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// speed returns 10^9 bytes a second, 0 for what took no time.
func speed(n int64, size int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) * float64(size) / float64(took.Nanoseconds())
}

// A secureChannelSide is what one side has sent and received.
type secureChannelSide struct {
	Sent      int64   `json:"sent"`
	SendMs    float64 `json:"send_ms"`
	Received  int64   `json:"received"`
	ReceiveMs float64 `json:"receive_ms"`
	Size      int     `json:"msg_size"`
	Side      string  `json:"side"`
}

// A secureChannelDocument is what gantry secure-channel prints with --json. With
// both sides, what stands outside of them is the host's.
type secureChannelDocument struct {
	secureChannelSide
	Sides []secureChannelSide `json:"sides,omitempty"`
}

func newSecureChannelDocument(results []securechannel.Result) *secureChannelDocument {
	d := new(secureChannelDocument)
	for _, r := range results {
		d.secureChannelSide = secureChannelSide{r.Sent, ms(r.Sending), r.Received, ms(r.Receiving), r.Size, r.Side.String()}
		if len(results) > 1 {
			d.Sides = append(d.Sides, d.secureChannelSide)
		}
	}
	return d
}

// watchMessages shows on a terminal how many messages are through, once that
// takes longer than a second.
func (c *console) watchMessages() (show func(done, total int64), hide func()) {
	if !isTerminal(c.err) {
		return nil, func() {}
	}
	late := lateWriter{c.err, time.Now().Add(time.Second)}
	var bar *progressbar.ProgressBar
	show = func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(total,
				progressbar.OptionSetWriter(late),
				progressbar.OptionSetDescription("messages"),
				progressbar.OptionSetWidth(20),
				progressbar.OptionThrottle(100*time.Millisecond),
			)
		}
		_ = bar.Set64(done)
	}
	hide = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	return show, hide
}
