# The image of the checkout with the self-contained program in the place of its broker and tools; the context is the program's folder.
FROM minibroker
USER 0
COPY . /opt/binary
# Without minibroker beside Python, the entry point takes the one on the PATH.
RUN rm /opt/minibroker/bin/minibroker /opt/minibroker/bin/minibroker-tools \
 && ln -s /opt/binary/minibroker /opt/minibroker/bin/minibroker-tools \
 && ln -s /opt/binary/minibroker /usr/bin/minibroker
USER 1000:0
