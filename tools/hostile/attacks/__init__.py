"""The attacks by what they abuse. Each function makes one: it takes the target, and returns when its time is over."""
