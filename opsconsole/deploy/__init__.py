"""What is put into a cluster: objects as plain values, from one configuration; its command writes them down."""
