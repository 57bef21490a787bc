# docker build -t unshuffle . && docker run --rm unshuffle
# With data: docker run --rm -v "$PWD:/data" -w /data unshuffle fit cells.csv --label brightness
FROM python:3.13-slim

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
# Compiled functions are kept where the user who runs the container may write.
ENV NUMBA_CACHE_DIR=/home/user/.cache/numba
RUN pip install --no-cache-dir "/src[report,parquet,fcs]" && rm -rf /src && useradd -m -u 1000 user
USER 1000
# The demo writes its report where it runs.
WORKDIR /home/user
# The first fit compiles; done here, it is in the image.
RUN unshuffle demo && rm unshuffle-demo.html

ENTRYPOINT ["unshuffle"]
CMD ["demo"]
