"""What adaptive average pooling over planes and over volumes shares."""
