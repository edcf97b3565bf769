#!/bin/bash
echo "a script before the start"
