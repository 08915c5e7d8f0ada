package syncevent

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roles are what the test binary does when a test starts it as another
// process.
var roles = map[string]func(*peer) error{}

func TestMain(m *testing.M) {
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		os.Exit(runPeer(play))
	}
	goleak.VerifyTestMain(m)
}
