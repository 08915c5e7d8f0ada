package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestSizesAreReadInEveryForm(t *testing.T) {
	for text, want := range map[string]sizeFlag{
		"0": 0, "4096": 4096, "4K": 4096, "4k": 4096, "4KiB": 4096, "4kib": 4096,
		"1M": 1 << 20, "1MiB": 1 << 20, "3G": 3 << 30, "2TiB": 2 << 40,
		"9223372036854775807": 1<<63 - 1, "8388607T": 8388607 << 40,
	} {
		var got sizeFlag
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestWhatIsNoSizeIsRefusedAndChangesNothing(t *testing.T) {
	for _, text := range []string{
		"", "K", "iB", "4iB", "4KB", "4B", "-1", "-1K", "+4", "4 K", "1.5M", "0x10", "1e3", "4KiBiB", "4KK", "1MK",
		"8388608T", "9223372036854775808", "nine",
	} {
		got := sizeFlag(7)
		if err := got.Set(text); err == nil || got != 7 {
			t.Errorf("%q: %d, %v, want an error and the value from before", text, got, err)
		}
	}
}

func TestSizesPrintAsTheyAreRead(t *testing.T) {
	for size, want := range map[sizeFlag]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1KiB", 1025: "1025", 1 << 20: "1MiB", 1<<20 + 1<<10: "1025KiB", 1 << 40: "1TiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d prints as %q, want %q", int64(size), got, want)
		}
		var back sizeFlag
		if err := back.Set(size.String()); err != nil || back != size {
			t.Errorf("%q is read back as %d, %v", size.String(), back, err)
		}
	}
}

func TestDurationsAreReadInEveryForm(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "5s": 5 * time.Second, "0.5": time.Second / 2, "200ms": 200 * time.Millisecond,
		"1m30s": 90 * time.Second, "10us": 10 * time.Microsecond,
	} {
		var got durationFlag
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%q: %v, %v, want %v", text, time.Duration(got), err, want)
		}
	}
}

func TestWhatIsNoDurationIsRefusedAndChangesNothing(t *testing.T) {
	for _, text := range []string{"", "s", "-1", "-5s", "5 s", "soon", "NaN", "inf", "1e300", "9223372037"} {
		got := durationFlag(7)
		if err := got.Set(text); err == nil || got != 7 {
			t.Errorf("%q: %v, %v, want an error and the value from before", text, time.Duration(got), err)
		}
	}
}

func TestHelpNamesTheTypeAndTheDefault(t *testing.T) {
	size, duration := sizeFlag(1<<20), durationFlag(2*time.Second)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Var(&size, "chunk", "bytes per task")
	flags.VarP(&duration, "duration", "D", "how long")
	want := "      --chunk size          bytes per task (default 1MiB)\n" +
		"  -D, --duration duration   how long (default 2s)\n"
	if got := flagHelp(flags); got != want {
		t.Errorf("help is\n%swant\n%s", got, want)
	}
}
