package comch

// A Consumer receives messages into posted buffers.
type Consumer struct{}

// acknowledged is told whether the peer can reach the consumer.
func (k *Consumer) acknowledged(ok bool) {}

// withdrawn is told that the peer does not touch the consumer's memory any more.
func (k *Consumer) withdrawn() {}
